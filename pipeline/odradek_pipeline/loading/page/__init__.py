"""`page`: the runs of a table as one HTML file. All but `command` is values in and text out."""
