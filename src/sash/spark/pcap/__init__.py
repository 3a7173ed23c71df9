"""Capture files as a stream of packets: CREATE STREAM p FROM pcap OPTIONS (path 'trace.pcap').

    file ──► capture.py: where records begin ──► frames.py: what headers say ──► packets.py: columns ──► Spark
             classic.py, pcapng.py

Nothing is done packet by packet in Python: compiled loops go from record to record and through the headers of each,
NumPy and Arrow do the rest. `source.py` makes a Spark data source of it.
"""
