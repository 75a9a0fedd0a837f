from plait.verification import Evidence


async def sums_to(evidence: Evidence, total: int) -> str | None:
    """Return what is wrong, or `None`."""
    assert evidence.call_tool is not None
    ((call, _result),) = evidence.trace.calls
    found = await evidence.call_tool("sums", "add_numbers", dict(call.arguments))
    return None if float(found) == total else f"the tool returns {found}"
