"""What went wrong at an object store, said so that a person can mend it.

obstore tells most failures apart only by their text. That text can hold what a server echoes of a request (key ids,
signed strings), so nothing of it is passed on but the status and the code of the error.
"""

from __future__ import annotations

import re

_STATUS = re.compile(r"Server returned (?:non-2xx status code|error response): (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z0-9]{1,64})</Code>")
_REGION = re.compile(r"<Region>([a-z0-9-]{1,32})</Region>")
_WHO_ASKS = re.compile(  # kbcore itself only sends GET and HEAD to a store
    r"Error performing (?:PUT|POST) |token request|169\.254\.|Missing ?\w*(?:Access|Secret)|redential error"
    r"|Error retrieving|Invalid Access Key|Account must be|Unable to (?:open|decode)"
)
_REFUSED_KEYS = {
    "AuthenticationFailed",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
}
_ELSEWHERE = {"AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "PermanentRedirect"}
_RIGHTS = {
    "s3": "grant these credentials s3:ListBucket on the bucket and s3:GetObject on what lies below the prefix",
    "gs": "grant this account storage.objects.list and storage.objects.get (role Storage Object Viewer)",
    "az": "grant this account the role Storage Blob Data Reader on the container",
}
_VARIABLES = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN)",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY (or AZURE_STORAGE_SAS_TOKEN)",
}


class ObjectFailure(Exception):
    """``message`` without the name of the source, ``remedy``, and whether trying again may help (``transient``)."""

    def __init__(self, message: str, remedy: str = "", *, transient: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.transient = transient


class ObjectGone(ObjectFailure):
    """There is no object under the key that was asked for."""


class ObjectChanged(ObjectFailure):
    """The object is not the one of the ETag that was asked for."""


def explain(error: BaseException, *, scheme: str, bucket: str, where: str, region: str | None) -> ObjectFailure:
    """Why a request failed. ``where`` is the server as the configuration names it, "" for the cloud's own."""
    text = str(error).partition("Debug source")[0]
    whole = str(error)
    asked, _, _ = text.partition("Server returned")
    status = int(found[1]) if (found := _STATUS.search(text)) else None
    code = found[1] if (found := _CODE.search(text)) else ""
    said = f"{status} {code}".strip() if status else ""
    at = f" at {where}" if where else ""
    renew = f"renew what {_VARIABLES[scheme]} hold, or the variables that the configuration names"
    if _WHO_ASKS.search(asked):
        return ObjectFailure(
            "no usable credentials were found in the environment",
            f"set {_VARIABLES[scheme]} or name other variables in secret_key_env; a public bucket needs anonymous = true",
        )
    if code in _REFUSED_KEYS or status == 401:
        return ObjectFailure(f"the credentials were not accepted{at} ({said})", renew)
    if code in _ELSEWHERE or "redirect" in asked.lower() or status in (301, 302, 307, 308):
        right = found[1] if (found := _REGION.search(text)) else None
        named = f"region {region!r}" if region else "the region that was asked"
        return ObjectFailure(
            f"the bucket {bucket!r} is not in {named}" + (f" ({said})" if said else ""),
            f"set region = {right!r}" if right else "set region to the one the bucket lies in, and see to the endpoint",
        )
    if status == 403:
        return ObjectFailure(f"access denied to {bucket!r}{at} ({said})", _RIGHTS[scheme])
    if status == 404:
        return ObjectFailure(
            f"there is no bucket {bucket!r}{at} ({said})",
            "mend [[sources]] url or endpoint, or make the bucket; nothing is taken for removed meanwhile",
        )
    if status in (429, 503):
        return ObjectFailure(f"the store is busy or limits requests ({said})", "try again later", transient=True)
    if status is not None and (status >= 500 or status == 408):
        return ObjectFailure(f"the store failed ({said})", "try again later", transient=True)
    if status is not None:
        return ObjectFailure(f"the request was refused ({said})", "see to url, endpoint and region")
    if "BadScheme" in whole:
        return ObjectFailure("the endpoint in the environment has no TLS", "use https, or set allow_http = true")
    if "invalid list response" in text.lower():
        return ObjectFailure("what was answered is no listing", "see to url and endpoint", transient=True)
    if "HTTP error" in text or "error sending request" in text or "body error" in text:
        return ObjectFailure(
            f"the store cannot be reached{at}, or the connection broke",
            "see to the network and the endpoint, then try again",
            transient=True,
        )
    return ObjectFailure(f"the request failed ({type(error).__name__})", "see to url, endpoint and credentials")
