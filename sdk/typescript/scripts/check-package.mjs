// Checks the package as its users get it: size, `exports`, types for each way to import it.
import { execFileSync } from 'node:child_process'
import { readFileSync, rmSync } from 'node:fs'

const LARGEST = 100_000

const run = (command, ...args) =>
    execFileSync('npx', ['--no', command, ...args], { stdio: ['ignore', 'pipe', 'inherit'], encoding: 'utf8' })
const { version } = JSON.parse(readFileSync('package.json', 'utf8'))
const source = readFileSync('src/version.ts', 'utf8')
if (!source.includes(`'${version}'`)) fail(`src/version.ts does not have the version ${version} of package.json`)

const [packed] = JSON.parse(execFileSync('npm', ['pack', '--json', '--silent'], { encoding: 'utf8' }))
try {
    console.log(
        `${packed.filename}: ${packed.size} bytes packed, ${packed.unpackedSize} unpacked, ${packed.files.length} files`,
    )
    if (packed.size > LARGEST) fail(`the package has more than ${LARGEST} bytes`)
    console.log(run('publint', '--strict', packed.filename))
    console.log(run('attw', packed.filename, '--no-emoji', '--profile', 'node16'))
} finally {
    rmSync(packed.filename)
}

function fail(message) {
    console.error(message)
    process.exit(1)
}
