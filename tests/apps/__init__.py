"""Tests of the reference applications: each is started as its README says and spoken to over HTTP."""
