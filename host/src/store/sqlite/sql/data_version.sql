-- Changes when another connection, of this process or another, has committed.
PRAGMA data_version
