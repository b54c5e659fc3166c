// Builds {{name}}.wasm out of component.js.

import { writeFile } from 'node:fs/promises';
import { componentize } from '@bytecodealliance/componentize-js';

const { component } = await componentize({
  sourcePath: 'component.js',
  witPath: 'wit',
  worldName: '{{world}}',
  // Features that need a grant are left out. Output on stderr is not, because it shows why a component failed.
  disableFeatures: ['random', 'clocks', 'http', 'fetch-event'],
});
await writeFile('{{name}}.wasm', component);
