"""The application of a service, for servers that are started by the name of one."""

import os

from ahop.service import create_app

app = create_app({"wifi": os.environ["AHOP_DOOR"]})
