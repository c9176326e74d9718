"""The directory for mindformers' ``register_path``: see `tb_mindformers_plugin.registration`."""
