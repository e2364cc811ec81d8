"""What does it take to copy a folder to a server, by labferry or by a tool that only copies?"""

import os
from collections import Counter
from dataclasses import replace

from benchmarks.ferry import DIGESTS, ferry
from benchmarks.job import Job
from benchmarks.peers import PEERS
from benchmarks.processes import Cost, run_to_end

TOOLS = ("labferry", *PEERS)


def copy(job: Job) -> Cost:
    """Copy the folder of a job, and look whether all of it is there. Raises: RuntimeError."""
    if job.tool == "labferry":
        cost = ferry(job.folder, job.endpoint, job.tool, job.scratch, job.point.environment)
    else:
        own = {"PATH": os.environ["PATH"], "HOME": str(job.scratch)}
        command = PEERS[job.tool].command(job.folder, job.endpoint, job.tool)
        environment = {**own, **job.endpoint.environment}
        cost = run_to_end(command, environment, job.scratch / "log")
    _check(job)
    rate = {"files_per_s": len(job.point.sizes) / cost.wall_s}
    return replace(cost, figures={**rate, **cost.figures})


def digests(tool: str) -> str:
    """Return which digests of the bytes a tool computes."""
    return PEERS[tool].digests if tool in PEERS else DIGESTS


def _check(job: Job) -> None:
    """Refuse a figure for work that was not done. Raises: RuntimeError."""
    prefix = f"{job.tool}/raw/bench/run/" if job.tool == "labferry" else f"{job.tool}/"
    pages = job.endpoint.client().get_paginator("list_objects_v2")
    listing = pages.paginate(Bucket=job.endpoint.bucket, Prefix=prefix)
    found = [item["Size"] for page in listing for item in page.get("Contents", ())]
    if Counter(found) != Counter(job.point.sizes):
        wanted = len(job.point.sizes)
        raise RuntimeError(f"{job.tool} left {len(found)} of {wanted} files, or of other sizes")
