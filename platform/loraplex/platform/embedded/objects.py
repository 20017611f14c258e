"""A real S3 endpoint over a folder: nanio as a process, with credentials of its own."""

import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from loraplex.platform.embedded.ports import LOOPBACK
from loraplex.platform.embedded.private_files import private_dir, remembered_secret
from loraplex.platform.embedded.processes import Command, NotReady, base_environment


@dataclass(frozen=True)
class Objects:
    """The S3 server of one folder; the probe also makes the bucket."""

    folder: Path
    port: int
    bucket: str = "loraplex"
    region: str = "us-east-1"
    name: str = "objects"

    @property
    def endpoint(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    @cached_property
    def access_key_id(self) -> str:
        return remembered_secret(self.folder / "access_key_id")[:20]

    @cached_property
    def secret_access_key(self) -> str:
        return remembered_secret(self.folder / "secret_access_key")

    def prepare(self) -> None:
        private_dir(self.folder)
        private_dir(self.folder / "data")

    def command(self) -> Command:
        argv = (sys.executable, "-m", "nanio", "serve", "--host", LOOPBACK)
        flags = ("--port", str(self.port), "--region", self.region, "--no-access-log")
        return Command(
            argv=(*argv, *flags, "--data-dir", str(self.folder.absolute() / "data")),
            env=base_environment()
            | {
                "NANIO_ACCESS_KEY": self.access_key_id,
                "NANIO_SECRET_KEY": self.secret_access_key,
            },
        )

    def probe(self) -> None:
        """A signed call for the bucket, which is made when it is missing."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            try:
                self.client.head_bucket(Bucket=self.bucket)
            except ClientError as error:
                if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
                    raise
                self.client.create_bucket(Bucket=self.bucket)
        except (BotoCoreError, ClientError) as error:
            raise NotReady(str(error)) from error

    @cached_property
    def client(self) -> Any:
        """boto3's, for calls of ours in the bucket."""
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=self.region,
            aws_access_key_id=self.access_key_id,
            aws_secret_access_key=self.secret_access_key,
            config=Config(
                connect_timeout=2,
                read_timeout=2,
                retries={"total_max_attempts": 1},
                s3={"addressing_style": "path"},
            ),
        )
