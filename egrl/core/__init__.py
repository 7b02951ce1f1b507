"""The contracts between methods and measuring, and the one loop; knows no file format, no command line, no network."""
