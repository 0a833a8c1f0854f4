"""The authorizer of one process: by its settings, and by the ACLs of each image."""

from __future__ import annotations

from odradek.foundation.settings.broker_settings import Settings
from odradek.metadata.image.image import ClusterImage, ImageHolder
from odradek.security.authorization.acl_matching import AclIndex
from odradek.security.authorization.authorizer import Authorizer, super_users


def authorizer_of(settings: Settings, images: ImageHolder) -> Authorizer:
    """Follows `images` from now on: a removed ACL decides nothing any more once the image without it is there."""
    authorizer = Authorizer(
        super_users=super_users(settings.super_users),
        allows_without_acl=settings.allow_everyone_if_no_acl_found,
    )

    def follow(old: ClusterImage, new: ClusterImage) -> None:
        if old.acls is not new.acls:
            authorizer.replace(AclIndex() if new.acls is None else new.acls)

    acls = images.current.acls
    authorizer.replace(AclIndex() if acls is None else acls)
    images.subscribe(follow)
    return authorizer
