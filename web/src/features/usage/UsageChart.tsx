import { useState, type KeyboardEvent, type PointerEvent } from "react";
import type { BucketWidth } from "@/shared/api/types";
import { classes } from "@/shared/ui/classes";
import { roundTop, type Bar } from "./chart";
import { formatBucket } from "./moments";
import styles from "./UsageChart.module.css";

type Props = {
  bars: Bar[];
  /** Names of the parts, in their order. */
  series: string[];
  width: BucketWidth;
  /** What is counted, and how one writes so many of it. */
  title: string;
  format: (value: number) => string;
  formatShort: (value: number) => string;
};

const SERIES_LOOKS = [styles.s0, styles.s1, styles.s2, styles.s3, styles.s4, styles.s5];

/** Bars over time. Arrow keys go from bar to bar, as the pointer does; each is read out. */
export function UsageChart({ bars, series, width, title, format, formatShort }: Props) {
  const [chosen, setChosen] = useState<number | null>(null);
  const top = roundTop(Math.max(...bars.map(({ total }) => total)));
  const bar = chosen === null ? undefined : bars[chosen];
  const words = bar ? readOut(bar, series, width, format) : `${title}, bar by bar`;

  const point = ({ clientX, currentTarget }: PointerEvent) => {
    const { left, width: pixels } = currentTarget.getBoundingClientRect();
    const index = Math.floor(((clientX - left) / pixels) * bars.length);
    setChosen(Math.max(0, Math.min(bars.length - 1, index)));
  };
  const step = (event: KeyboardEvent) => {
    const next = NEXT[event.key]?.(chosen ?? bars.length, bars.length - 1);
    if (next === undefined) return;
    event.preventDefault();
    setChosen(next);
  };
  return (
    <figure className={styles.chart}>
      <figcaption className={styles.caption}>{title}</figcaption>
      <div className={styles.plot}>
        <span className={styles.top}>{formatShort(top)}</span>
        <span className={styles.middle}>{formatShort(top / 2)}</span>
        <div
          className={styles.bars}
          role="slider"
          tabIndex={0}
          aria-label={title}
          aria-valuemin={0}
          aria-valuemax={bars.length - 1}
          aria-valuenow={chosen ?? bars.length - 1}
          aria-valuetext={words}
          onKeyDown={step}
          onPointerMove={point}
          onPointerDown={point}
          onPointerLeave={() => {
            setChosen(null);
          }}
        >
          <Bars bars={bars} top={top} chosen={chosen} />
        </div>
      </div>
      <div className={styles.ends} aria-hidden="true">
        {[bars[0], bars[Math.floor(bars.length / 2)], bars.at(-1)].map((one, index) => (
          <span key={index}>{one && formatBucket(one.start, width)}</span>
        ))}
      </div>
      <p className={styles.readout} aria-hidden="true">
        {bar ? words : "Point at a bar, or use the arrow keys."}
      </p>
      {series.length > 1 && (
        <ul className={styles.legend} aria-label="Colours">
          {series.map((name, index) => (
            <li key={index}>
              <span className={classes(styles.swatch, SERIES_LOOKS[index])} aria-hidden="true" />
              {name}
            </li>
          ))}
        </ul>
      )}
    </figure>
  );
}

/** Where a key leads from a bar; before any is chosen, one past the last. */
const NEXT: Record<string, (from: number, last: number) => number> = {
  ArrowLeft: (from) => Math.max(0, from - 1),
  ArrowRight: (from, last) => Math.min(last, from + 1),
  Home: () => 0,
  End: (_, last) => last,
};

/** Stretched to whatever room there is: one unit wide each, and a hundred high. */
function Bars({ bars, top, chosen }: { bars: Bar[]; top: number; chosen: number | null }) {
  return (
    <svg viewBox={`0 0 ${bars.length} 100`} preserveAspectRatio="none" aria-hidden="true">
      {bars.map((bar, index) => (
        <g key={bar.start}>
          {index === chosen && <rect x={index} width={1} height={100} className={styles.chosen} />}
          {stack(bar, top).map(({ y, height, part }) => (
            <rect
              key={part}
              x={index + 0.1}
              y={y}
              width={0.8}
              height={height}
              className={SERIES_LOOKS[part]}
            />
          ))}
        </g>
      ))}
    </svg>
  );
}

/** The parts of a bar one upon the other, from the bottom up. */
function stack({ parts }: Bar, top: number) {
  let y = 100;
  return parts.map((value, part) => {
    const height = (100 * value) / top;
    y -= height;
    return { y, height, part };
  });
}

function readOut(bar: Bar, series: string[], width: BucketWidth, format: (n: number) => string) {
  const when = `${formatBucket(bar.start, width)}: ${format(bar.total)}`;
  const parts = bar.parts.flatMap((value, index) =>
    value > 0 ? [`${series[index] ?? ""} ${format(value)}`] : [],
  );
  return series.length > 1 && parts.length > 0 ? `${when} (${parts.join(", ")})` : when;
}
