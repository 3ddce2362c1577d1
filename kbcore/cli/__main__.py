from kbcore.cli import main

main()
