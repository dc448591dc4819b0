"""python -m bench.planted --set first [--only ID] [--json FILE]"""

from bench.planted.run import main

main()
