"""crewai: a crew of one agent with one task, and a task whose output is a model."""

from crewai import LLM, Agent, Crew, Task
from harness import QUESTION, run
from pydantic import BaseModel


class Recipe(BaseModel):
    """What is asked for in the structured case."""

    title: str


def kick_off(url, *, stream=False, **more):
    """Run a crew."""
    model = LLM(model="openai/gpt-4o", base_url=f"{url}/v1", api_key="none", max_retries=0, stream=stream)
    baker = Agent(role="baker", goal="answer", backstory="none", llm=model, max_iter=1, max_retry_limit=0)
    task = Task(description=QUESTION, expected_output="an answer", agent=baker, **more)
    return Crew(agents=[baker], tasks=[task], verbose=False).kickoff()


def plain(url):
    """Ask for a whole answer."""
    got = kick_off(url)
    return got.raw, got


def streamed(url):
    """Ask with the model streaming."""
    got = kick_off(url, stream=True)
    return got.raw, got


def structured(url):
    """Ask for a recipe."""
    got = kick_off(url, output_pydantic=Recipe)
    return got.pydantic, got


run(plain=plain, streamed=streamed, structured=structured)
