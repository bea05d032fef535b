"""The images that all other tests here need; `./dev test` builds them beforehand."""

from __future__ import annotations

import pytest

from stack import VERSION, docker

pytestmark = pytest.mark.timeout(300, func_only=True)


@pytest.mark.parametrize("image", ["crema", "crema-dask"])
def test_an_image_can_be_made(images, image):
    assert (
        docker("image", "inspect", "--format", "{{.Os}}", f"{image}:{VERSION}").strip() == "linux"
    )
