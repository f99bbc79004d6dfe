// Requests to the service. Errors carry the service's own line.

export class ServiceError extends Error {
  constructor(status, line) {
    super(line);
    this.status = status;
  }
}

// Returns the response of a request, or throws a ServiceError.
export async function request(path, options = {}) {
  let response;
  try {
    response = await fetch(new URL(path, location.origin), options); // the browser asks for a token and sends it
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServiceError(0, "the service does not answer");
  }
  if (!response.ok) throw new ServiceError(response.status, await errorLine(response));
  return response;
}

async function errorLine(response) {
  const body = await response.json().catch(() => ({}));
  return body.error ?? `${response.status} ${response.statusText}`;
}

export const getJSON = async (path, options) => (await request(path, options)).json();

export async function postJSON(path, body) {
  const headers = { "Content-Type": "application/json" };
  return (await request(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
}

// Yields the events of a job as {type, data}. Read with fetch, whose errors have the service's line.
export async function* events(id, signal) {
  const response = await request(`/jobs/${id}/events`, { signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text = (text + value).replaceAll("\r\n", "\n");
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const field = (name) => block.match(new RegExp(`^${name}: ?(.*)$`, "m"))?.[1];
      if (field("data")) yield { type: field("event"), data: JSON.parse(field("data")) };
    }
  }
}

// Saves a file of the service under the name that it gives; errors are shown on the page.
export async function download(path) {
  const response = await request(path);
  const url = URL.createObjectURL(await response.blob());
  const link = document.createElement("a");
  link.href = url;
  link.download = /filename="?([^";]+)/.exec(response.headers.get("Content-Disposition") ?? "")?.[1] ?? path.split("/").at(-1);
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
