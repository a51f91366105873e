"""dspy: a predictor with one field of text, its stream, and a typed field."""

import dspy
from harness import QUESTION, run
from pydantic import BaseModel


class Recipe(BaseModel):
    """What is asked for in the structured case."""

    title: str


class Baking(dspy.Signature):
    """Answer with a recipe."""

    question: str = dspy.InputField()
    recipe: Recipe = dspy.OutputField()


def model(url):
    """Return a model that does not ask twice and does not remember."""
    return dspy.LM("openai/gpt-4o", api_base=f"{url}/v1", api_key="none", num_retries=0, cache=False)


def plain(url):
    """Ask for a whole answer, by the model itself: the simulator knows nothing of dspy's markers."""
    got = model(url)(QUESTION)
    return got[0], got


def structured(url):
    """Ask for a recipe."""
    with dspy.context(lm=model(url), adapter=dspy.JSONAdapter()):
        got = dspy.Predict(Baking)(question=QUESTION)
        return got.recipe, got.toDict()


run(plain=plain, structured=structured)
