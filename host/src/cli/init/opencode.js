// Written by `act init --for opencode`; `act init --for opencode --undo` removes it.
//
// opencode cannot be held at the end of a turn. When a session becomes idle, this runs the project's checks, and a red
// result becomes the next message of that session.
import { spawn } from "node:child_process";

const COMMAND = "COMMAND";

function act(directory, event) {
  return new Promise((resolve) => {
    const child = spawn(COMMAND[0], COMMAND.slice(1), { cwd: directory, stdio: ["pipe", "pipe", "ignore"] });
    let answer = "";
    child.stdout.on("data", (data) => {
      if (answer.length < 1 << 20) answer += data;
    });
    child.on("error", () => resolve({}));
    child.on("close", () => {
      try {
        resolve(JSON.parse(answer));
      } catch {
        resolve({});
      }
    });
    child.stdin.on("error", () => {});
    child.stdin.end(JSON.stringify(event));
  });
}

export const Act = async ({ client, directory }) => {
  const inner = new Set();
  return {
    event: async ({ event }) => {
      const info = event.properties?.info;
      if (event.type === "session.created") {
        // The session of a subagent ends inside of another one.
        if (info?.parentID) inner.add(info.id);
        else await act(directory, { hook_event_name: "SessionStart", session_id: info?.id });
      }
      if (event.type === "session.idle") {
        const id = event.properties?.sessionID;
        if (!id || inner.has(id)) return;
        const { message } = await act(directory, { hook_event_name: "Stop", session_id: id });
        if (message) await client.session.prompt({ path: { id }, body: { parts: [{ type: "text", text: message }] } });
      }
    },
  };
};
