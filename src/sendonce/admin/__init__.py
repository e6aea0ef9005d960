"""What a person can ask and do, as functions over the ports: the command line, the API and the dashboard call these."""
