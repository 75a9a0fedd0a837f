import asyncio
import threading

import httpx2

from plait import AuthRequiredError, OAuth, Toolbox
from plait.client import FileTokenStore
from plait.testing import oauth_server

JOB_KEY = "correct horse"
LOGINS = FileTokenStore("logins")  # the default is a folder among your own data


def visit(address: str) -> None:
    """Stand in for the browser, and for the person who says yes in it."""

    def follow() -> None:
        httpx2.get(address, follow_redirects=True)

    threading.Thread(target=follow).start()


async def whoami(url: str, auth: OAuth) -> str:
    async with Toolbox({"notes": {"url": url, "auth": auth}}) as box:
        return (await box.call("notes", "whoami")).text


async def main() -> None:
    with oauth_server() as server:
        try:
            await whoami(server.url, OAuth(store=LOGINS))
        except AuthRequiredError as error:
            print(error)

        print("signed in:", await whoami(server.url, OAuth(store=LOGINS, on_redirect=visit)))

        server.end_access()
        print("renewed:", await whoami(server.url, OAuth(store=LOGINS)))
        print("by hand:", server.counts["authorize"], "renewals:", server.counts["refresh_token"])

        server.add_client("nightly-job", secret=JOB_KEY)
        job = OAuth(
            grant="client_credentials",
            client_id="nightly-job",
            client_secret=JOB_KEY,
            issuer=server.issuer,
            store=LOGINS,
        )
        print("a program:", await whoami(server.url, job))


asyncio.run(main())
