import { defineConfig } from 'tsdown'

/** Compiles the tests with the sources, so that Node.js 20, Bun and Deno run the same files. */
export default defineConfig({
    entry: ['tests/scenarios.ts', 'tests/*.test.ts'],
    format: 'esm',
    target: 'es2022',
    platform: 'node',
    outDir: '.build',
    dts: false,
})
