import { defineConfig } from 'tsdown'

export default defineConfig({
  entry: { index: 'src/index.ts', testing: 'src/testing.ts' },
  format: ['esm', 'cjs'],
  target: 'es2022',
  platform: 'neutral',
  dts: true,
  outExtensions: ({ format }) => ({ js: format === 'es' ? '.mjs' : '.cjs', dts: format === 'es' ? '.d.mts' : '.d.cts' }),
})
