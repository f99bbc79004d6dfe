// The commands that do the same as the page.

import { byId } from "./dom.js";

// The commands for what the form holds, and for the jobs that are shown, with a token if the service wants one.
export function commands(form, runs, token) {
  const base = location.origin;
  const curl = token ? 'curl -H "Authorization: Bearer $ELGO_TOKEN"' : "curl";
  const json = "-H 'Content-Type: application/json'";
  const options = JSON.stringify(form.options());
  const send = {
    file: () => `${curl} ${base}/jobs ${fileFields(form, options).map((field) => `-F ${quote(field)}`).join(" ")}`,
    generate: () => `${curl} -s ${base}/generate ${json} -d ${quote(JSON.stringify(form.recipe()))} |\n` +
      `  sed ${quote(`s/^{/{"options":${options},/${byId("open").checked ? '; s/"open":false/"open":true/' : ""}`)} | ${curl} ${base}/jobs ${json} -d @-`,
    click: () => `${curl} ${base}/jobs ${json} -d ${quote(JSON.stringify({ instance: form.withEnds(form.clicked()), options: form.options() }))}`,
  };
  const lines = ["# send this problem", send[form.kind]()];
  for (const { id } of runs) {
    lines.push("", "# the job on the screen, its events, its solution", `${curl} ${base}/jobs/${id}`);
    lines.push(`${curl} -N ${base}/jobs/${id}/events`, `${curl} -O ${base}/jobs/${id}/solution.sol`);
  }
  return lines.join("\n");
}

function fileFields(form, options) {
  const capacity = byId("file-capacity").value;
  const fields = [`file=@${form.file?.name ?? "FILE"}`, `options=${options}`];
  if (capacity) fields.push(`capacity=${capacity}`);
  if (byId("open").checked) fields.push("open=true");
  return fields;
}

// A word of a POSIX shell.
const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;
