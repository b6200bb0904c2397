import { writeFile } from 'node:fs/promises'
import { defineConfig, type UserConfig } from 'tsdown'

const shared: UserConfig = {
    entry: { index: 'src/index.ts', testing: 'src/testing.ts' },
    target: 'es2022',
    platform: 'neutral',
    // For projects whose settings have no types of `await using`.
    banner: { dts: '/// <reference lib="esnext.disposable" />' },
    // The types have the comments. The annotation keeps bundlers from looking for optional packages.
    outputOptions: { comments: { jsdoc: false, annotation: true, legal: false } },
}

/** The types of both formats are in the files for CommonJS, so that they are in the package once. */
async function addTypes(): Promise<void> {
    for (const name of ['index', 'testing']) {
        await writeFile(`dist/${name}.d.mts`, `export * from './${name}.cjs'\n`)
    }
}

export default defineConfig([
    { ...shared, format: 'esm', dts: false, outExtensions: () => ({ js: '.mjs' }), onSuccess: addTypes },
    { ...shared, format: 'cjs', dts: true, outExtensions: () => ({ js: '.cjs', dts: '.d.cts' }), clean: false },
])
