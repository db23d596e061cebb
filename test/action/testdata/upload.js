// What the code of a pull request can do with the measuring job's rights: give the
// run artifacts of any name and of any bytes, by the calls that GitHub's client
// makes. The arguments are files, NAME.zip.
const fs = require('fs')
const path = require('path')

const token = process.env.ACTIONS_RUNTIME_TOKEN
const scopes = JSON.parse(Buffer.from(token.split('.')[1], 'base64url')).scp.split(' ')
const [, run, job] = scopes.find(s => s.startsWith('Actions.Results:')).split(':')
const ids = {workflow_run_backend_id: run, workflow_job_run_backend_id: job}

async function call(method, body) {
  const url = new URL('twirp/github.actions.results.api.v1.ArtifactService/' + method, process.env.ACTIONS_RESULTS_URL)
  const answer = await fetch(url, {
    method: 'POST', body: JSON.stringify({...ids, ...body}),
    headers: {Authorization: 'Bearer ' + token, 'Content-Type': 'application/json'},
  })
  if (!answer.ok) throw new Error(method + ': ' + answer.status + ' ' + await answer.text())
  return answer.json()
}

async function put(url, query, body) {
  const answer = await fetch(url + query, {method: 'PUT', body})
  if (!answer.ok) throw new Error('upload: ' + answer.status + ' ' + await answer.text())
}

async function main() {
  for (const file of process.argv.slice(2)) {
    const name = path.basename(file, '.zip'), bytes = fs.readFileSync(file)
    const made = await call('CreateArtifact', {name, version: 4})
    const url = made.signedUploadUrl || made.signed_upload_url
    const block = Buffer.from('block').toString('base64')
    await put(url, '&comp=block&blockid=' + encodeURIComponent(block), bytes)
    await put(url, '&comp=blocklist', '<?xml version="1.0" encoding="utf-8"?><BlockList><Latest>' + block + '</Latest></BlockList>')
    await call('FinalizeArtifact', {name, size: String(bytes.length)})
    console.log('uploaded ' + name)
  }
}

main().catch(err => { console.log(err.message); process.exit(1) })
