"""RabbitMQ's virtual hosts as namespaces: `/` is `default`, others have their own name, percent-encoded where a
namespace cannot have it."""

from __future__ import annotations

import re

from penstock.queues.names import DEFAULT_NAMESPACE, check_namespace

DEFAULT_VHOST = "/"

_CODES = "25|2F|2B|23|7C|24"
_ESCAPED = re.compile(rf"%(?={_CODES})|[/+#|]|^\$")
_ESCAPE = re.compile(rf"%({_CODES})")
# A virtual host that is called so is not the one called /.
_CALLED_DEFAULT = f"%{ord(DEFAULT_NAMESPACE[0]):02X}{DEFAULT_NAMESPACE[1:]}"


def namespace_of_vhost(vhost: str) -> str:
    """InvalidArgument for one that cannot be: empty, too long, with control characters."""
    if vhost == DEFAULT_VHOST:
        return DEFAULT_NAMESPACE
    if vhost == DEFAULT_NAMESPACE:
        return _CALLED_DEFAULT
    namespace = _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", vhost)
    check_namespace(namespace)
    return namespace


def vhost_of_namespace(namespace: str) -> str:
    if namespace == DEFAULT_NAMESPACE:
        return DEFAULT_VHOST
    if namespace == _CALLED_DEFAULT:
        return DEFAULT_NAMESPACE
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), namespace)
