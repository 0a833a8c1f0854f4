"""The door of this room: a process loads its own parts, and HTTP where it is asked to serve it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.foundation.doors import open_late

if TYPE_CHECKING:
    from odradek.broker.process.broker_process import BrokerProcess as BrokerProcess
    from odradek.broker.process.cluster_control import ClusterControl as ClusterControl
    from odradek.broker.process.testing_faults import Faults as Faults
    from odradek.server.controller.controller_process import ControllerProcess as ControllerProcess
    from odradek.server.http.admin import AdminServer as AdminServer
    from odradek.server.http.admin import HttpServer as HttpServer
    from odradek.server.http.admin import guard_of as guard_of
    from odradek.server.http.cluster_admin import ClusterAdminServer as ClusterAdminServer
    from odradek.server.http.cluster_metrics import register_controller as register_controller
    from odradek.server.http.machine_admin import MachineAdminServer as MachineAdminServer
    from odradek.server.http.mirror_admin import MirrorAdminServer as MirrorAdminServer
else:
    __getattr__ = open_late(
        __name__,
        {
            "BrokerProcess": "odradek.broker.process.broker_process",
            "ClusterControl": "odradek.broker.process.cluster_control",
            "Faults": "odradek.broker.process.testing_faults",
            "ControllerProcess": "odradek.server.controller.controller_process",
            "AdminServer": "odradek.server.http.admin",
            "HttpServer": "odradek.server.http.admin",
            "guard_of": "odradek.server.http.admin",
            "ClusterAdminServer": "odradek.server.http.cluster_admin",
            "register_controller": "odradek.server.http.cluster_metrics",
            "MachineAdminServer": "odradek.server.http.machine_admin",
            "MirrorAdminServer": "odradek.server.http.mirror_admin",
        },
    )
