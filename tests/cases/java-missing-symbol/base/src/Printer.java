public class Printer {
    public String print(Receipt receipt) {
        return "Receipt " + receipt.number();
    }
}
