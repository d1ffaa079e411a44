"""Virtual hosts are namespaces, each of them one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import InvalidArgument
from penstock.queues.names import check_namespace
from penstock.queues.vhosts import namespace_of_vhost, vhost_of_namespace


@pytest.mark.parametrize(
    ("vhost", "namespace"),
    [
        ("/", "default"),
        ("shop", "shop"),
        ("/shop", "%2Fshop"),
        ("a/b", "a%2Fb"),
        ("default", "%64efault"),
        ("50%", "50%"),
        ("a%2Fb", "a%252Fb"),
        ("$a$", "%24a$"),
        ("a+#|", "a%2B%23%7C"),
    ],
)
def test_a_virtual_host_is_a_namespace(vhost: str, namespace: str) -> None:
    assert namespace_of_vhost(vhost) == namespace
    assert vhost_of_namespace(namespace) == vhost


@given(st.text(st.sampled_from("a%2F5/+#|$64default"), min_size=1, max_size=12))
def test_each_has_one_that_leads_back(vhost: str) -> None:
    namespace = namespace_of_vhost(vhost)
    check_namespace(namespace)
    assert vhost_of_namespace(namespace) == vhost


@pytest.mark.parametrize("vhost", ["", "a\n", "x" * 256])
def test_what_no_namespace_can_be(vhost: str) -> None:
    with pytest.raises(InvalidArgument):
        namespace_of_vhost(vhost)
