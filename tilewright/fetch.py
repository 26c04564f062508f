"""Download the networks that the README quotes from their public repositories, checked against their checksums.

A file is first written beside its destination under another name and renamed when it is whole and right,
so that whatever goes wrong, no partial or foreign file is left under a model's name.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tilewright.errors import TilewrightError
from tilewright.files import FileError, directory_for, read_bytes, write_with
from tilewright.progress import Progress, silent

__all__ = ["BASE_URL", "BASE_URL_VARIABLE", "MODELS", "RemoteModel", "fetch_model"]

BASE_URL = "https://raw.githubusercontent.com/mlcommons/tiny/v1.1/benchmark/training"
BASE_URL_VARIABLE = "TILEWRIGHT_MODELS_URL"  #: environment variable that replaces where the models are
TIMEOUT_SECONDS = 30
CHUNK_BYTES = 1 << 14
_CORAL = "https://raw.githubusercontent.com/google-coral/test_data/104342d2d3480b3e66203073dac24f4e2dbb4c41"


@dataclass(frozen=True)
class RemoteModel:
    """A published network: where it is below the base URL, and what its bytes must be."""

    path: str
    sha256: str
    size: int  #: bytes
    description: str
    base_url: str = BASE_URL


MODELS: dict[str, RemoteModel] = {
    "resnet8_cifar10": RemoteModel(
        "image_classification/trained_models/pretrainedResnet_quant.tflite",
        "3c002613d1b2475eb51dd78dfb85a546c8ae658dee71cf6ade43b022fe205415",
        98_496,
        "image classification: ResNet-8, CIFAR-10, 32x32x3",
    ),
    "dscnn_keywords": RemoteModel(
        "keyword_spotting/trained_models/kws_ref_model.tflite",
        "aeea436800704fce17b17292e4412630ad856e9d777c044c64ef748a880bd0ae",
        53_936,
        "keyword spotting: DS-CNN, 12 words, 49x10 features",
    ),
    "mobilenet_person": RemoteModel(
        "visual_wake_words/trained_models/vww_96_int8.tflite",
        "597a384c8c2c8a1276f04702f25013b7838f2f814f1ca7c174d295b73e3d6b7b",
        333_288,
        "visual wake words: MobileNetV1 0.25, person or not, 96x96x3",
    ),
    "autoencoder_toycar": RemoteModel(
        "anomaly_detection/trained_models/ad01_int8.tflite",
        "87cf24194ef93d1d9b11a591d805526b98008e351655d29883c825c9c106ba24",
        276_976,
        "anomaly detection: autoencoder, 640 features",
    ),
    "mobilenet_v2_imagenet": RemoteModel(
        "tf2_mobilenet_v2_1.0_224_ptq.tflite",
        "5d3137241276e79c86d14a74fe43581398ae0e815191d3dba45495b810840e8c",
        4_070_174,
        "image classification: MobileNetV2 1.0, ImageNet, 224x224x3",
        _CORAL,
    ),
}


def fetch_model(
    name: str, directory: str | os.PathLike[str], base_url: str | None = None, progress: Progress = silent
) -> Path:
    """Download model ``name`` into ``directory`` as ``NAME.tflite``; returns the file's path.

    A file that is there already with the right checksum is kept, without asking the network. ``base_url``
    replaces the public repository, as does the environment variable ``TILEWRIGHT_MODELS_URL``; the
    checksum must hold all the same. ``progress`` is called after each piece, with bytes.

    Raises :class:`TilewrightError` for an unknown name, an unreachable or failing server, a wrong
    checksum, and a directory that cannot be written.
    """
    model = MODELS.get(name)
    if model is None:
        raise TilewrightError(f"unknown model '{name}': choose one of {', '.join(MODELS)}")
    destination = Path(directory) / f"{name}.tflite"
    if _is_right(destination, model):
        return destination
    url = f"{(base_url or os.environ.get(BASE_URL_VARIABLE) or model.base_url).rstrip('/')}/{model.path}"
    with directory_for(destination.parent):
        write_with(
            destination,
            lambda stream: _receive(url, model, stream.write, lambda got: progress(name, got, model.size)),
        )
    return destination


def _is_right(file: Path, model: RemoteModel) -> bool:
    """Whether ``file`` can be read and holds exactly the model."""
    try:
        return hashlib.sha256(read_bytes(file, model.size)).hexdigest() == model.sha256
    except FileError:
        return False


def _receive(url: str, model: RemoteModel, write: Callable[[bytes], int], progress: Callable[[int], None]) -> None:
    """Pass the bytes behind ``url`` to ``write``; raises unless they are the model's."""
    digest = hashlib.sha256()
    received = 0
    for chunk in _chunks(url):
        digest.update(chunk)
        received += len(chunk)
        if received > model.size:
            break
        write(chunk)
        progress(received)
    if received != model.size:
        amount = f"more than {model.size}" if received > model.size else f"{received} of {model.size}"
        raise TilewrightError(f"{url} sent {amount} bytes: nothing was kept; try again or use another --base-url")
    if digest.hexdigest() != model.sha256:
        raise TilewrightError(
            f"{url} has the wrong checksum (sha256 {digest.hexdigest()[:16]}..., expected {model.sha256[:16]}...): "
            "nothing was kept; try again or use another --base-url"
        )


def _chunks(url: str) -> Iterator[bytes]:
    """The body behind ``url``, piece by piece; every network error becomes a one-line one."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response:
            while chunk := response.read(CHUNK_BYTES):
                yield chunk
    except urllib.error.HTTPError as error:
        raise TilewrightError(f"{url} answered {error.code} {error.reason}: try another --base-url") from error
    except urllib.error.URLError as error:
        raise TilewrightError(f"cannot reach {url}: {error.reason}; check the network, or use --base-url") from error
    except (http.client.HTTPException, OSError) as error:
        raise TilewrightError(f"{url} broke off: {error or type(error).__name__}; try again") from error
    except ValueError as error:
        raise TilewrightError(f"not a URL: {url}; --base-url must start with https:// or http://") from error
