// A job of the service, followed while it runs.

import { events, getJSON, request, ServiceError } from "./api.js";

const PAUSE = 1000; // milliseconds before a broken connection is tried again

export const METHODS = { search: "Search", elg: "Search from ELG", policy: "ELG alone" };

export class Run {
  // onChange(run) is called after every change.
  constructor(id, onChange) {
    this.id = id;
    this.onChange = onChange;
    this.job = null;
    this.fraction = 0;
    this.abort = new AbortController();
  }

  get active() {
    return this.job?.state === "waiting" || this.job?.state === "running";
  }

  get method() {
    const { policy_only: policyOnly, start } = this.job.options;
    return METHODS[policyOnly ? "policy" : start ? "elg" : "search"];
  }

  // Reads the job and follows its events to the end.
  async follow() {
    while (!this.abort.signal.aborted) {
      try {
        this.set(await getJSON(`/jobs/${this.id}`, { signal: this.abort.signal }));
        if (!this.active) return;
        for await (const event of events(this.id, this.abort.signal)) this.take(event);
      } catch (error) {
        if (error.name === "AbortError") return;
        if (error instanceof ServiceError && error.status) throw error;
        await new Promise((resolve) => setTimeout(resolve, PAUSE));
      }
    }
  }

  take({ type, data }) {
    if (type === "improved") {
      const { history } = this.job;
      this.job.state = "running";
      this.job.solution = data.solution ?? this.job.solution;
      if (!history.length || data.cost < history.at(-1)[1]) history.push([data.seconds, data.cost, data.source]);
    } else if (type === "progress") {
      this.fraction = data.fraction;
    }
    this.onChange(this);
  }

  set(job) {
    this.job = job;
    if (!this.active) this.fraction = 1;
    this.onChange(this);
  }

  async stop() {
    this.set(await (await request(`/jobs/${this.id}`, { method: "DELETE" })).json());
  }

  close() {
    this.abort.abort();
  }
}
