"""inspect-ai: the model that its tasks ask, and a response schema."""

from harness import QUESTION, run
from inspect_ai.model import GenerateConfig, ResponseSchema, get_model
from inspect_ai.util import json_schema
from pydantic import BaseModel


class Recipe(BaseModel):
    """What is asked for in the structured case."""

    title: str


async def generate(url, **more):
    """Return the output of a model that does not ask twice."""
    config = GenerateConfig(max_retries=0, **more)
    model = get_model("openai/gpt-4o", base_url=f"{url}/v1", api_key="none", responses_api=False, memoize=False)
    got = await model.generate(QUESTION, config=config)
    return got.completion, got


async def plain(url):
    """Ask for a whole answer."""
    return await generate(url)


async def structured(url):
    """Ask for a recipe."""
    return await generate(url, response_schema=ResponseSchema(name="recipe", json_schema=json_schema(Recipe)))


run(plain=plain, structured=structured)
