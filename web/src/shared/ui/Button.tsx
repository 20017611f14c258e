import type { ComponentProps } from "react";
import { Link } from "react-router";
import { classes } from "./classes";
import styles from "./Button.module.css";

type Look = { look?: "primary" | "plain" | "quiet" | "danger"; isSmall?: boolean };

export function Button({ look, isSmall, ...rest }: Look & ComponentProps<"button">) {
  return <button type="button" {...rest} className={classOf(look, isSmall)} />;
}

/** Looks like a button, is a link: it goes somewhere. */
export function ButtonLink({ look, isSmall, ...rest }: Look & ComponentProps<typeof Link>) {
  return <Link {...rest} className={classOf(look, isSmall)} />;
}

const classOf = (look: Look["look"] = "plain", isSmall = false) =>
  classes(styles.button, styles[look], isSmall && styles.small);
