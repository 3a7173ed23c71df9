"""Capture files as a stream of packets: CREATE STREAM p FROM pcap OPTIONS (path 'trace.pcap').

    file ──► capture.py, pcapng.py: where records begin ──► frames.py: what headers say, as columns ──► source.py: Spark

Nothing is done packet by packet in Python: compiled loops go from record to record and through the headers of each.
"""
