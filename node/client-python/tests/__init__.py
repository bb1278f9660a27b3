"""Tests of the client on real sockets, processes, forks and threads; nothing is replaced."""
