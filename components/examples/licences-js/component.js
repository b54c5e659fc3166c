// Reports the licences of a repository's projects and of the packages in their lock files. It uses no model.

import { step } from 'agentcommand:progress/progress@1.0.0';
import { listEntries, readText } from 'agentcommand:repo/read@1.5.0';

const COPYLEFT = /\b(A?GPL|LGPL|MPL|EPL|CDDL|EUPL)\b/i;
const MOST = 2000;

// An exported function returns an error of its WIT type by throwing it: a case and its value.
const failure = (error) => ({ tag: 'other', val: String(error?.payload?.val ?? error?.payload?.tag ?? error) });

function files(globs) {
  const found = [];
  let cursor;
  do {
    const page = listEntries({ under: [], globs, kinds: ['file'] }, cursor);
    found.push(...page.items.map(({ path }) => path));
    cursor = page.next;
  } while (cursor !== undefined);
  return found;
}

// The readers of manifests and lock files, by file name. Each returns `{projects, dependencies}`.
const READERS = {
  'package.json': (text, path) => {
    const { name, license, licenses } = JSON.parse(text);
    const old = Array.isArray(licenses) ? licenses.map(({ type }) => type).join(' OR ') : undefined;
    return { projects: [{ path, name: said(name), licence: said(license?.type ?? license ?? old) }] };
  },
  'package-lock.json': (text, path) => {
    const packages = Object.entries(JSON.parse(text).packages ?? {});
    const dependencies = packages
      .filter(([place, { version, link }]) => place !== '' && version !== undefined && !link)
      .map(([place, { version, license }]) => dependency(place.split('node_modules/').pop(), version, license, path));
    return { dependencies };
  },
  'Cargo.toml': (text, path) => {
    const { name, license } = table(text, 'package');
    return name === undefined ? {} : { projects: [{ path, name: said(name), licence: said(license) }] };
  },
  // Cargo.lock names no licences. Its packages from a registry are listed, so that a person can check them.
  'Cargo.lock': (text, path) => ({
    dependencies: text
      .split('[[package]]')
      .slice(1)
      .map((part) => table(`[package]\n${part}`, 'package'))
      .filter(({ source }) => source !== undefined)
      .map(({ name, version }) => dependency(name, version, undefined, path)),
  }),
  'pyproject.toml': (text, path) => {
    const { name, license } = table(text, 'project');
    return name === undefined ? {} : { projects: [{ path, name: said(name), licence: said(license) }] };
  },
};

const said = (value) => (typeof value === 'string' && value.trim() !== '' ? value.trim() : null);

function dependency(name, version, license, source) {
  const licence = said(license);
  return { name: String(name), version: String(version), licence, copyleft: COPYLEFT.test(licence ?? ''), source };
}

// Plain values of one table in TOML: `key = "value"`, and `license = {text = "…"}`.
function table(text, name) {
  const values = {};
  let inside = false;
  for (const line of text.split('\n')) {
    const header = /^\s*\[([^\]]*)\]\s*(#.*)?$/.exec(line);
    if (header) inside = header[1].trim() === name;
    const pair = /^\s*([\w-]+)\s*=\s*(?:"([^"]*)"|\{\s*text\s*=\s*"([^"]*)")/.exec(line);
    if (inside && pair) values[pair[1]] ??= pair[2] ?? pair[3];
  }
  return values;
}

function report() {
  const told = { projects: [], dependencies: [], problems: [] };
  for (const path of files(Object.keys(READERS))) {
    step(`reading ${path}`);
    try {
      const found = READERS[path.split('/').pop()](readText(path), path);
      told.projects.push(...(found.projects ?? []));
      told.dependencies.push(...(found.dependencies ?? []));
    } catch (error) {
      told.problems.push(`${path}: ${failure(error).val}`);
    }
  }
  const count = (what) => told.dependencies.filter(what).length;
  const all = told.dependencies.length;
  const [unnamed, copyleft] = [count(({ licence }) => licence === null), count((one) => one.copyleft)];
  if (all > MOST) told.problems.push(`${all - MOST} dependencies more are not listed`);
  told.dependencies.length = Math.min(all, MOST);
  const summary = `${all} dependencies: ${copyleft} under copyleft licences, ${unnamed} without a named licence`;
  return { summary, ...told };
}

export const scout = {
  ask() {
    try {
      return JSON.stringify(report());
    } catch (error) {
      throw failure(error);
    }
  },
};
