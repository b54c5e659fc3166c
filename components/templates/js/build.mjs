// Builds {{name}}.wasm out of component.js.

import { writeFile } from 'node:fs/promises';
import { componentize } from '@bytecodealliance/componentize-js';

const { component } = await componentize({
  sourcePath: 'component.js',
  witPath: 'wit',
  worldName: '{{world}}',
  // What needs a grant is left out; what is printed to stderr tells why a component failed.
  disableFeatures: ['random', 'clocks', 'http', 'fetch-event'],
});
await writeFile('{{name}}.wasm', component);
