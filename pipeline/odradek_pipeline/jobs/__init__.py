"""Jobs for spark-submit, one in each file; in the image they are in /opt/odradek/jobs."""
