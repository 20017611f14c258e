"""A small platform under the real supervisor: the three services and gateways of ten lines.

Run as a program: `toy_platform.py DATA_DIR PORT`. It writes `services.json` once the services
answer, and prints what the supervisor reports.
"""

import asyncio
import socket
import sys
from pathlib import Path

from loraplex.engine.protocol.errors import DomainError
from loraplex.platform.embedded.data_directory import held
from loraplex.platform.embedded.environment import write_services_file
from loraplex.platform.embedded.own_services import own_services
from loraplex.platform.embedded.programs import Program
from loraplex.platform.embedded.progress import Progress
from loraplex.platform.embedded.public_socket import bind_public
from loraplex.platform.embedded.supervisor import Stage, Supervisor, supervise
from loraplex.platform.settings import Settings

GATEWAYS = 2
GATEWAY = """
import http.server, os, socket, sys
class Gateway(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = str(os.getpid()).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = http.server.HTTPServer(("127.0.0.1", 0), Gateway, bind_and_activate=False)
server.socket = socket.socket(fileno=int(sys.argv[1]))
server.serve_forever()
"""


async def start(settings: Settings, public: socket.socket, supervisor: Supervisor) -> str:
    services = await asyncio.to_thread(own_services, settings)
    settings = services.complete(settings)
    children = supervisor.launch(Stage.SERVICES, services.children())
    await asyncio.gather(*(child.wait_ready(60) for child in children))
    await asyncio.to_thread(services.make_roles)
    write_services_file(settings)
    public.listen(64)
    number = public.fileno()
    gateways = supervisor.launch(
        Stage.GATEWAYS,
        [
            Program(
                f"gateway-{index}",
                (sys.executable, "-c", GATEWAY, str(number)),
                {},
                pass_fds=(number,),
            )
            for index in range(GATEWAYS)
        ],
    )
    await asyncio.gather(*(gateway.wait_ready(60) for gateway in gateways))
    return "up"


def main() -> None:
    data_dir, port = Path(sys.argv[1]), int(sys.argv[2])
    progress = Progress()
    with held(data_dir, progress.line):
        settings = Settings(data_dir=data_dir, port=port)
        with bind_public(settings.host, settings.port) as public:
            asyncio.run(
                supervise(
                    settings.run_dir,
                    data_dir / "logs",
                    progress.line,
                    lambda supervisor: start(settings, public, supervisor),
                )
            )


if __name__ == "__main__":
    try:
        main()
    except DomainError as error:
        sys.exit(error.message)
