"""What the plugin's routes answer, without HTTP: requests checked, runs asked, responses laid out."""
