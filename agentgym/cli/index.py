"""`agentgym index`: build, inspect and search an index over one's own corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from agentgym.cli import console

app = typer.Typer(help="Build, inspect and search an index over your own corpus.", no_args_is_help=True)
Folder = Annotated[Path, typer.Argument(help="Folder of the index.")]
AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable.")]


@app.command()
def build(
    corpus: Annotated[
        list[str],
        typer.Argument(
            help="JSON Lines, a BEIR folder, or a folder of .txt/.md/.html. NAME=PATH makes a named source."
        ),
    ],
    folder: Annotated[Path, typer.Option("--out", "-o", help="Folder of the index to make.")],
    retrieval: Annotated[str, typer.Option(help="hybrid, lexical (needs no torch) or dense.")] = "hybrid",
    lexical: Annotated[str, typer.Option(help="bm25s, rank-bm25 or tantivy.")] = "bm25s",
    rerank: Annotated[bool | None, typer.Option(help="MaxSim rerank; by default up to 10,000 chunks.")] = None,
    chunk_tokens: Annotated[int, typer.Option(help="Longest chunk, in tokens, before slack.")] = 512,
    counter: Annotated[str, typer.Option(help="Token counter: o200k or words.")] = "o200k",
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of text files that are no UTF-8, such as latin-1.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Build an index; a build that was killed goes on where it stopped.

    Example: agentgym index build docs/ --out idx/ --retrieval lexical
    """
    from agentgym.corpus.readers import read_corpus
    from agentgym.retrieval.index import Index

    documents = []
    for item in corpus:
        source, eq, path = item.partition("=")
        named = bool(eq) and not Path(item).exists()
        documents += list(read_corpus(path if named else item, source=source if named else "", encoding=encoding))
    with console.progress(f"indexing {len(documents):,} documents") as update:
        index = Index.build(
            documents,
            folder,
            retrieval=retrieval,
            lexical=lexical,
            rerank=rerank,
            chunk_tokens=chunk_tokens,
            counter=counter,
            progress=lambda stage, done, total: update(done, total),
        )
    _describe(index, as_json)


@app.command()
def info(folder: Folder, as_json: AsJson = False) -> None:
    """Say what an index holds and how it was built.

    Example: agentgym index info idx/
    """
    from agentgym.retrieval.index import Index

    _describe(Index.open(folder), as_json)


@app.command()
def verify(folder: Folder) -> None:
    """Read every file of an index and compare it with its hash; exit status 2 when one differs.

    Example: agentgym index verify idx/
    """
    from agentgym.retrieval.index import Index

    Index.open(folder).verify()
    console.out.print(f"{folder}: every file is as it was written")


@app.command()
def search(
    folder: Folder,
    query: Annotated[str, typer.Argument(help="What to look for.")],
    k: Annotated[int, typer.Option("-k", help="How many chunks.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Search an index.

    Example: agentgym index search idx/ "who designed the bridge" -k 3
    """
    from agentgym.retrieval.index import Index

    index = Index.open(folder)
    chunks = [index.chunk(row) for row in index.search(query, k)]
    if as_json:
        console.print_json([{"id": c.id, "title": c.title, "source": c.source, "text": c.text} for c in chunks])
        return
    for chunk in chunks:
        console.out.print(f"[bold]{console.plain(chunk.id)}[/bold] {console.plain(chunk.title)}")
        console.out.print(console.plain(chunk.text[:300].replace("\n", " ")))


def _describe(index: Any, as_json: bool) -> None:
    manifest = index.manifest
    facts = {
        "folder": str(index.folder),
        "hash": index.hash,
        "documents": manifest.documents,
        "chunks": manifest.chunks,
        "tokens": manifest.tokens,
        "sources": list(manifest.sources),
        "rerank": manifest.rerank,
        "settings": msgspec.to_builtins(index.settings),
    }
    if as_json:
        console.print_json(facts)
        return
    for key, value in facts.items():
        console.out.print(f"{key:>10}  {value}", markup=False, soft_wrap=True)
