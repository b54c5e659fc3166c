#!/usr/bin/env node
// Runs the program of the platform package that npm installed beside this one, with the same arguments, streams and
// environment, and ends as it ended.
'use strict';

const { spawn } = require('node:child_process');
const { constants } = require('node:os');
const own = require('./package.json');

const platform = `${process.platform}-${process.arch}`;
const wanted = `${own.name}-${platform}`;

function fail(message, hint) {
  process.stderr.write(`act: ${message}\nhint: ${hint}\n`, () => process.exit(1));
}

function find() {
  try {
    return require.resolve(`${wanted}/bin/act`);
  } catch {
    return undefined;
  }
}

function run(program) {
  let child;
  // Handlers first: the program may run before its start returns here. A terminal sends its signals to both processes, and act
  // takes a second one for the first.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT']) {
    process.on(signal, () => child.kill(signal));
  }
  child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });
  child.on('error', (error) =>
    fail(`cannot run ${program}: ${error.message}`, 'on Linux the program needs glibc; build act from its source otherwise'));
  child.on('exit', (code, signal) => {
    if (signal === null) {
      process.exit(code);
    }
    // The shell that waits sees the same signal. Node ignores some, so there is an exit code for them.
    process.exitCode = 128 + constants.signals[signal];
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

const program = find();
if (program !== undefined) {
  run(program);
} else if (wanted in own.optionalDependencies) {
  fail(`the package ${wanted} is missing`, `install ${own.name} again on this machine, without \`--omit=optional\``);
} else {
  const known = Object.keys(own.optionalDependencies).map((name) => name.slice(own.name.length + 1));
  fail(`there is no program for ${platform}, only for ${known.join(', ')}`,
    'build act from its source: `cargo install --locked --path host`');
}
