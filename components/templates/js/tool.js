// One tool for the Editor's model: the notes that people left in the code.

import { search } from 'agentcommand:repo/read@1.5.0';

// An exported function returns an error of its WIT type by throwing it: a case and its value.
const badArguments = (why) => ({ tag: 'bad-arguments', val: String(why) });

function parsed(text) {
  let given;
  try {
    given = JSON.parse(text.trim() || '{}');
  } catch (error) {
    throw badArguments(error);
  }
  const isObject = typeof given === 'object' && given !== null && !Array.isArray(given);
  if (!isObject || Object.keys(given).some((key) => key !== 'glob')) {
    throw badArguments('an object with nothing but `glob` was expected');
  }
  if (!['undefined', 'string'].includes(typeof given.glob)) throw badArguments('glob: a text was expected');
  return given;
}

function notes({ glob }) {
  const wanted = { regex: '\\b(TODO|FIXME|XXX)\\b', ignoreCase: false, multiLine: false };
  try {
    const { items } = search(wanted, { under: [], globs: glob ? [glob] : [], kinds: [] }, undefined);
    const lines = items.slice(0, 50).map(({ path, line, text }) => `${path}:${line}: ${text.trim()}`);
    return { text: lines.join('\n') || 'no notes', data: undefined, isError: false };
  } catch (error) {
    // The model can correct such a call, for example one with an invalid glob.
    return { text: String(error?.payload?.val ?? error?.payload?.tag ?? error), data: undefined, isError: true };
  }
}

export const tool = {
  call(name, given) {
    if (name !== 'notes') throw { tag: 'unknown-tool' };
    return notes(parsed(given));
  },
};
