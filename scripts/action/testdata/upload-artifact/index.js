// One file, one artifact. NODE_PATH is where the test has installed the client.
const path = require('path')
const {DefaultArtifactClient} = require('@actions/artifact')

// The client refuses to work with any server but github.com, whatever that could do
// (GHESNotSupportedError). Where a test wants the artifacts of another forge, it
// says so.
if (process.env.GATE_TEST_UPLOAD === 'anywhere') process.env.GITHUB_SERVER_URL = 'https://github.com'

const input = name => process.env['INPUT_' + name.toUpperCase()] || ''

async function main() {
  const file = path.resolve(input('path'))
  const options = {compressionLevel: Number(input('compression-level'))}
  if (Number(input('retention-days')) > 0) options.retentionDays = Number(input('retention-days'))
  const {id, size} = await new DefaultArtifactClient().uploadArtifact(input('name'), [file], path.dirname(file), options)
  console.log(`uploaded ${input('name')}: ${size} bytes, id ${id}`)
}

main().catch(err => {
  console.log('::error::' + err.message)
  process.exit(1)
})
