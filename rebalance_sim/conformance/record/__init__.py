"""Asking a real broker: starting one, driving it request by request, and writing traces.

Everything here that speaks to a broker needs the library ``kio`` (the extra ``record``).
"""
