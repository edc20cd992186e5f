"""Certificates for plans of actions: how cheap any plan can be, proved by bounds over boxes of parameters."""

from turnabout.methods.sequences.certificate.closed_forms import cheapest_absolute, cheapest_squared
from turnabout.methods.sequences.certificate.proof import Certificates, certify
from turnabout.methods.sequences.certificate.scan import cheapest_by_scan

__all__ = ["Certificates", "certify", "cheapest_absolute", "cheapest_by_scan", "cheapest_squared"]
