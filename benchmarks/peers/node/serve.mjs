// The Node side of benchmarks/peers/driver.py: one order a line on stdin, one answer a line on stdout.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";

// The modules are installed in a place of their own, outside of the repository's folders.
export const need = createRequire(`${process.env.PEER_MODULES}/`);

export function addressed() {
  const url = new URL(process.argv[2]);
  return { socket: { path: decodeURIComponent(url.pathname) }, database: Number(url.searchParams.get("db") ?? 0) };
}

const say = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);

// does: verb → [how it is done, in words, or null where it is nobody's business; the function that does it].
export async function serve(about, does) {
  const how = Object.fromEntries(Object.entries(does).map(([verb, [words]]) => [verb, words]));
  say({ about: `${about}, Node ${process.versions.node}`, how });
  for await (const line of createInterface({ input: process.stdin })) {
    const { do: verb, each } = JSON.parse(line);
    const run = does[verb][1];
    const us = [];
    const answers = [];
    const before = process.cpuUsage();
    for (const given of each) {
      const begun = process.hrtime.bigint();
      answers.push(await run(given));
      us.push(Number(process.hrtime.bigint() - begun) / 1000);
    }
    const spent = process.cpuUsage(before);
    say({ us, answers, cpu_us: spent.user + spent.system });
  }
  process.exit(0);
}

// Loading is not timed: so many at once, which the client sends as one pipeline.
export async function many(rows, login) {
  const tokens = [];
  for (let first = 0; first < rows.length; first += 500) {
    tokens.push(...(await Promise.all(rows.slice(first, first + 500).map(login))));
  }
  return tokens;
}
