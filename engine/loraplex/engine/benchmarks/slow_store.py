"""An object store that sends the files of a folder at a rate; prints its port. Imports little.

python slow_store.py DIR BYTES_PER_S
"""

import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SLICE_SECONDS = 0.005


def main(folder: Path, bytes_per_s: float) -> None:
    class Throttled(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = (folder / self.path.removeprefix("/")).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            began, piece = time.perf_counter(), int(bytes_per_s * SLICE_SECONDS)
            for number, start in enumerate(range(0, len(data), piece), start=1):
                self.wfile.write(data[start : start + piece])
                time.sleep(max(0.0, began + number * SLICE_SECONDS - time.perf_counter()))

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 # its own name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Throttled) as server:
        sys.stdout.write(f"{server.server_port}\n")
        sys.stdout.flush()
        server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
