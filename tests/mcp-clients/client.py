#!/usr/bin/env python3
"""client.py WIRE ACT REPO: lists and calls the tools of `act mcp` with PyPI's `mcp`, and goes on after the server was killed."""

import os
import signal
import sys
from pathlib import Path

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

wire, act, repo = sys.argv[1:]
recorder = str(Path(__file__).with_name("recorder.py"))


def parameters(*more):
    arguments = [recorder, wire, act, "mcp", "--repo", repo, *more]
    return StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))


async def call(session, name, **arguments):
    result = await session.call_tool(name, arguments)
    # Version 2 of the library has names in the style of Python.
    value = getattr(result, "structured_content", None) or getattr(result, "structuredContent", None)
    is_error = getattr(result, "is_error", None) or getattr(result, "isError", None)
    return value, bool(is_error)


async def main():
    try:
        async with stdio_client(parameters("--tools", "all")) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            names = [tool.name for tool in (await session.list_tools()).tools]
            assert len(names) == 9, names
            green, _ = await call(session, "verify")
            assert green["verdict"] == "PASS", green
            again, _ = await call(session, "verify")
            assert again["reused"] and again["run_id"] == green["run_id"], again
            log, _ = await call(session, "logs", run=green["run_id"])
            assert "the answer" in log["log"], log
            claim, _ = await call(session, "claim", run=green["run_id"])
            assert claim["_type"] == "https://in-toto.io/Statement/v1"
            status, _ = await call(session, "status")
            assert status["repo"]
            for name, arguments in [("report", {}), ("run", {"text": "x"}), ("dry_run", {"text": "x"}), ("apply", {})]:
                refusal, is_error = await call(session, name, **arguments)
                assert is_error and isinstance(refusal["code"], str), (name, refusal)
            Path(repo, "slow").touch()
            running, _ = await call(session, "verify", wait_s=1)
            assert running["state"] == "running", running
            ended, _ = await call(session, "cancel", id=running["id"])
            assert ended["state"] == "cancelled", ended
            os.kill(int(Path(f"{wire}.pid").read_text()), signal.SIGKILL)
            with anyio.fail_after(20):
                try:
                    await call(session, "status")
                except Exception:
                    pass
                else:
                    raise AssertionError("a killed server answers")
    except* AssertionError:
        raise
    except* Exception as group:
        # The streams of a killed server end with errors of their own.
        print(f"after the kill: {group.exceptions[0]!r}", file=sys.stderr)
    Path(repo, "slow").unlink()
    async with stdio_client(parameters()) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        verdict, _ = await call(session, "verify")
        assert verdict["verdict"] == "PASS", verdict
    spoken = Path(wire).read_text(encoding="utf-8")
    assert '"protocolVersion"' in spoken
    print("python: mcp, 9 tools")


anyio.run(main)
