"""Certificates for plans of actions: how cheap any plan can be, proved by bounds over boxes of parameters."""

from turnabout.methods.sequences.certificate.certificate_task import CertificateTask
from turnabout.methods.sequences.certificate.proof import Certificates, certify

__all__ = ["CertificateTask", "Certificates", "certify"]
