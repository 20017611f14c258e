import styles from "./Logo.module.css";

/** One base, several adapters on top of it. */
export function Logo() {
  return (
    <span className={styles.logo}>
      <svg viewBox="0 0 32 32" width="28" height="28" aria-hidden="true">
        <rect width="32" height="32" rx="8" fill="#0f5c6e" />
        <rect x="7" y="19" width="18" height="5" rx="1.6" fill="#fff" />
        <rect x="7" y="8" width="4.8" height="8.6" rx="1.5" fill="#8fe0d2" />
        <rect x="13.6" y="11.4" width="4.8" height="5.2" rx="1.5" fill="#f4c978" />
        <rect x="20.2" y="9.6" width="4.8" height="7" rx="1.5" fill="#b9d3ff" />
      </svg>
      Loraplex
    </span>
  );
}
